{{ config(
  materialized='table',
  file_format='parquet',
) }}

select
  tailnum,
  flight_date,
  flight_number,
  carrier,
  origin,
  dest,
  departure_delay
from {{ ref('departures') }}
