{{ config(
  materialized='table',
  file_format='parquet',
  partition_by=['flight_year'],
) }}

select
  tailnum,
  flight_date,
  flight_number,
  carrier,
  origin,
  dest,
  departure_delay,
  flight_year
from {{ ref('departures') }}
