-- The end of a session: what it sent and what it acked become so together, in however many queues, or not at all.
-- On a cluster the queues must share a hash tag. Done once: `done` remembers for a while that all is sent, for a call
-- that is repeated because its reply was lost (I12). Returns 1, or 0 and what is not held (queue's number, id, …).
local done = KEYS[1]
-- families from KEYS[2]: messages, states, history, ready, scheduled, expiring, leases, claims, counters, wake, settings, outcomes
-- items from ARGV[1]: acks, id, token; groups, delay, ttl, count, id, payload
-- For each queue the number of its acks and those; then the number of its groups of messages and those, each with
-- its delay and ttl (milliseconds; 0: none) and the number of messages.
local FAMILY, REMEMBERED = 12, 600000 -- keys of a queue; milliseconds, far longer than any call is repeated
-- @include lib/now
-- @include lib/record
-- @include lib/place
-- @include lib/holds
local sent = redis.call('EXISTS', done) == 1
local at = 1
local function read()
  at = at + 1
  return tonumber(ARGV[at - 1])
end

local function queue(base)
  local messages, states, history, ready = KEYS[base], KEYS[base + 1], KEYS[base + 2], KEYS[base + 3]
  local scheduled, expiring, leases, claims = KEYS[base + 4], KEYS[base + 5], KEYS[base + 6], KEYS[base + 7]
  local counters, wake, settings, outcomes = KEYS[base + 8], KEYS[base + 9], KEYS[base + 10], KEYS[base + 11]
  -- @include lib/wake
  -- @include lib/add
  -- @include lib/remove_acked
  -- @include lib/let_go
  return { states = states, add = add, remove_acked = remove_acked, let_go = let_go, ids = {}, held = {}, groups = {} }
end

local queues, lost = {}, { 0 }
for n = 1, (#KEYS - 1) / FAMILY do
  local q, seen = queue(2 + (n - 1) * FAMILY), {}
  for _ = 1, read() do
    local id, token = ARGV[at], ARGV[at + 1]
    at = at + 2
    local held = holds(token, redis.call('HGET', q.states, id))
    if held and not seen[id] then -- an item may be there twice
      q.ids[#q.ids + 1], q.held[token], seen[id] = id, (q.held[token] or 0) + 1, true
    elseif not held and not sent then
      lost[#lost + 1], lost[#lost + 2] = n, id
    end
  end
  for g = 1, read() do
    q.groups[g] = { delay = read(), ttl = read(), size = read(), first = at }
    at = at + 2 * q.groups[g].size
  end
  queues[n] = q
end
if #lost > 1 then
  return lost
end
for _, q in ipairs(sent and {} or queues) do
  for _, group in ipairs(q.groups) do
    q.add(ARGV, group.first, group.first + 2 * group.size - 1, group.delay, group.ttl)
  end
end
redis.call('SET', done, 1, 'PX', REMEMBERED) -- cut off before, a repetition sends the rest; after, it acks the rest
for _, q in ipairs(queues) do
  if #q.ids > 0 then
    q.remove_acked(q.ids)
    for token, count in pairs(q.held) do
      q.let_go(token, count)
    end
  end
end
return { 1 }
