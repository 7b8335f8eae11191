{{ config(materialized='view') }}

select
  flights.tailnum,
  flights.flight_number,
  flights.arrival_delay,
  flights.air_minutes,
  flights.distance,
  add_months(flights.flight_date, -12 * shifts.id) as flight_date
from {{ ref('stg_flights') }} as flights
cross join range({{ var('years') }}) as shifts
where flights.arrival_delay is not null
