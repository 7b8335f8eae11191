{{ config(
  materialized='bucketed_table',
  clustered_by=['tailnum'],
  sorted_by=['tailnum', 'flight_date', 'flight_number'],
  buckets=8,
) }}

select
  tailnum,
  flight_date,
  flight_number,
  arrival_delay,
  air_minutes,
  distance
from {{ ref('arrivals') }}
