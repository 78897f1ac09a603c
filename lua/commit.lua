-- Ends a session: what it sent and what it acked take effect together, in several queues, or not at all. On a cluster
-- the queues must share a hash tag. That all is sent is noted before anything is acked, so a repetition acks the rest
-- (I12). Returns 1; 0 and what is not held: the queue's number and the id, in pairs; or -1 where a queue was deleted
-- since the client opened it. In the last two cases nothing was done.
local number = ARGV[1]
-- items from ARGV[2]: opening, acks, id, token; groups, delay, ttl, count, id, payload
-- For each queue its opening (`lib/is_open.lua`); the number of its acks and those; then the number of its groups of
-- messages and those, each with its delay and ttl (milliseconds; 0: none) and the number of messages.
-- needs: holds, done, note_done
local at = 2
local function read()
  at = at + 1
  return tonumber(ARGV[at - 1])
end

local function queue(n)
  -- needs: add, remove_acked, let_go; keys: states, settings; family: n
  local q = { states = states, add = add, remove_acked = remove_acked, let_go = let_go }
  q.ids, q.texts, q.held, q.groups = {}, {}, {}, {}
  q.opening = redis.call('HGET', settings, 'opening')
  return q
end

local queues, lost, deleted = {}, { 0 }, false
while at <= #ARGV do
  local n = #queues + 1
  local q, seen = queue(n), {}
  deleted = deleted or ARGV[at] ~= '' and ARGV[at] ~= q.opening
  at = at + 1
  for _ = 1, read() do
    local id, token = ARGV[at], ARGV[at + 1]
    at = at + 2
    local text = redis.call('HGET', q.states, id)
    local held = holds(token, text)
    if held and not seen[id] then -- an item may come twice
      q.ids[#q.ids + 1], q.texts[#q.ids + 1] = id, text
      q.held[token], seen[id] = (q.held[token] or 0) + 1, true
    elseif not held and not done then
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
elseif deleted and not done then
  return { -1 }
end
for _, q in ipairs(done and {} or queues) do
  for _, group in ipairs(q.groups) do
    q.add(ARGV, group.first, group.first + 2 * group.size - 1, group.delay, group.ttl, '')
  end
end
if not done then
  note_done(1) -- cut off before this, a repetition sends the rest; after it, acks the rest
end
for _, q in ipairs(queues) do
  if #q.ids > 0 then
    q.remove_acked(q.ids, q.texts)
    q.let_go(q.held)
  end
end
return { 1 }
