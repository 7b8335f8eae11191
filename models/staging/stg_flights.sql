select
  carrier,
  tailnum,
  origin,
  dest,
  cast(flight as int) as flight_number,
  cast(year as int) as flight_year,
  cast(time_hour as timestamp) as hour_at,
  cast(sched_dep_time as int) as scheduled_departure,
  cast(dep_delay as int) as departure_delay,
  cast(arr_delay as int) as arrival_delay,
  cast(air_time as int) as air_minutes,
  cast(distance as int) as distance,
  dep_time is null as is_cancelled,
  make_date(cast(year as int), cast(month as int), cast(day as int)) as flight_date,
  concat(year, '-', lpad(month, 2, '0')) as flight_month,
  concat_ws('-', carrier, flight, origin, substr(time_hour, 1, 13)) as flight_id
from {{ source('nycflights13', 'flights') }}
