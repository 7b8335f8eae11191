{{ config(materialized='table', file_format='parquet', tags=['planes']) }}

select
  tailnum,
  min(flight_date) as first_flight,
  max(flight_date) as last_flight,
  count_if(not is_cancelled) as flights,
  count_if(is_cancelled) as cancelled_flights,
  count(distinct dest) as destinations,
  sum(air_minutes) as air_minutes,
  sum(distance) as distance
from {{ ref('flights_with_planes') }}
group by tailnum
