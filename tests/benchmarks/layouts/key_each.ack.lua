-- D. A key for each message; one lease for each claim, as in A.
local message, leases, claims, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- @include _holds
-- @include _key
-- @include _let_go
-- @include _fence
local texts, keys = {}, {}
for n, id in ipairs(ids) do
  texts[n] = state_of(id)
end
local verdicts, acked, let = fenced(texts)
if #acked > 0 then
  for n, id in ipairs(acked) do
    keys[n] = message .. id
  end
  redis.call('DEL', unpack(keys))
  redis.call('HINCRBY', counters, 'acked', #acked)
  for token, held in pairs(let) do
    let_go(token, held)
  end
end
return verdicts
