{{ config(materialized='view', tags=['weather']) }}

select
  flights.origin,
  flights.hour_at,
  flights.flight_id,
  flights.carrier,
  flights.dest,
  flights.is_cancelled,
  flights.departure_delay,
  weather.temperature,
  weather.wind_speed,
  weather.precipitation,
  weather.visibility
from {{ ref('flights_by_hour') }} as flights
left join {{ ref('weather_by_hour') }} as weather
  on flights.origin = weather.origin and flights.hour_at = weather.hour_at
