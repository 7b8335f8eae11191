{{ config(
  materialized='bucketed_incremental',
  incremental_strategy='merge',
  unique_key='tailnum',
  merge_exclude_columns=['first_flight'],
  clustered_by=['tailnum'],
  buckets=4,
  on_schema_change='sync_all_columns',
) }}

select
  tailnum,
  min(flight_date) as first_flight,
  max(flight_date) as last_flight,
  max_by(dest, hour_at) as last_dest
from {{ ref('flights_so_far') }}
where
  tailnum is not null
  {% if is_incremental() %}
    and flight_date > (select max(built.last_flight) from {{ this }} as built)
  {% endif %}
group by tailnum
