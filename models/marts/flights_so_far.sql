{{ config(
  materialized='bucketed_incremental',
  incremental_strategy='append',
  partition_by=['origin'],
  clustered_by=['tailnum'],
  buckets=4,
  on_schema_change='append_new_columns',
) }}

select
  tailnum,
  flight_id,
  flight_month,
  flight_date,
  hour_at,
  carrier,
  dest,
  air_minutes,
  origin
from {{ ref('stg_flights') }}
where
  flight_month = (
    select min(flights.flight_month)
    from {{ ref('stg_flights') }} as flights
    {% if is_incremental() %}
      where flights.flight_month > (select max(built.flight_month) from {{ this }} as built)
    {% endif %}
  )
