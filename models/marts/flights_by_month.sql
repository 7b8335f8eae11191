{#- Spark resolves a relative location against the location of the schema, so this location is .demo/external. -#}
{{ config(
  materialized='bucketed_incremental',
  incremental_strategy='insert_overwrite',
  partition_by=['flight_month'],
  clustered_by=['tailnum'],
  buckets=4,
  on_schema_change='fail',
  on_bucket_change='evolve',
  location_root='../../external',
) }}

select
  flight_month,
  tailnum,
  flight_id,
  flight_date,
  carrier,
  origin,
  dest,
  is_cancelled,
  departure_delay,
  arrival_delay
from {{ ref('stg_flights') }}
{% if is_incremental() %}
  where flight_month >= (select max(built.flight_month) from {{ this }} as built)
{% endif %}
