-- The server's clock in whole milliseconds, read once per script (I11).
-- gives: now
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
