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
  carrier,
  origin,
  dest,
  departure_delay
from {{ ref('departures') }}
