-- Restarts the leases of whole claims. Returns 1 for each claim that still holds messages, 0 for one that has ended.
-- drains
local lease = ARGV[1] -- milliseconds
-- items from ARGV[2]: token
local leases = KEYS[1]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local reply = {}
for i = 2, #ARGV do
  local held = redis.call('ZSCORE', leases, ARGV[i])
  if held then
    redis.call('ZADD', leases, now + lease, ARGV[i])
  end
  reply[#reply + 1] = held and 1 or 0
end
return reply
