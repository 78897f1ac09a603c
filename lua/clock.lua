-- The server's clock in whole milliseconds. A call reads it once, as `q.now` (I11).
function Clock.read()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end
