{{ config(
  materialized='table',
  file_format='parquet',
) }}

select
  tailnum,
  flight_date,
  flight_number,
  arrival_delay,
  air_minutes,
  distance
from {{ ref('arrivals') }}
