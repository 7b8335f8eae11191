{{ config(
  materialized='bucketed_table',
  partition_by=['flight_year'],
  clustered_by=['tailnum'],
  sorted_by=['tailnum', 'flight_date', 'flight_number'],
  buckets=8,
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
