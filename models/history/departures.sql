{{ config(materialized='view') }}

select
  flights.tailnum,
  flights.flight_number,
  flights.carrier,
  flights.origin,
  flights.dest,
  flights.departure_delay,
  add_months(flights.flight_date, -12 * shifts.id) as flight_date
from {{ ref('stg_flights') }} as flights
cross join range({{ var('years') }}) as shifts
where flights.tailnum is not null
