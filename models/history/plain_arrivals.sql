{{ config(
  materialized='table',
  file_format='parquet',
  partition_by=['flight_year'],
) }}

select
  tailnum,
  flight_date,
  flight_number,
  arrival_delay,
  air_minutes,
  distance,
  flight_year
from {{ ref('arrivals') }}
