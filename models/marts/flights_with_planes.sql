{{ config(
  materialized='bucketed_table',
  file_format='orc',
  clustered_by=['tailnum'],
  buckets=8,
  tags=['planes'],
) }}

select
  flights.tailnum,
  flights.flight_id,
  flights.flight_date,
  flights.carrier,
  flights.origin,
  flights.dest,
  flights.is_cancelled,
  flights.air_minutes,
  flights.distance,
  planes.manufacturer,
  planes.model,
  planes.seats,
  year(flights.flight_date) - planes.built_in as plane_age
from {{ ref('flights_by_plane') }} as flights
inner join {{ ref('planes') }} as planes on flights.tailnum = planes.tailnum
