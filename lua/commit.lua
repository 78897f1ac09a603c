-- Ends a session: what it sent and what it acked take effect together, in several queues, or not at all. On a cluster
-- the queues must share a hash tag. That all is sent is noted before anything is acked, so a repetition acks the rest
-- (I12). What is too large for one script was staged, and is moved afterwards (`move_staged`). Returns 1 and which
-- messages were not sent, since a dead letter has their id: the queue's number, and the position of the id among the
-- arguments, in pairs, below 0 where a known message has another key; 0 and what is not held: the queue's number and the id, in
-- pairs; -1 where a queue was deleted since the client opened it; -2 where what was staged has outlived its time to live. In the
-- last three nothing was done.
local number, grace = ARGV[1], ARGV[2] -- grace: milliseconds until maintenance moves what was staged
-- items from ARGV[3]: opening, acks, id, token; groups, delay, ttl, count, id, payload; member, length
-- For each queue its opening (`lib/is_open.lua`); the number of its acks and those; then the number of its groups of
-- messages and those, each with its delay and ttl (milliseconds; 0: none) and the number of messages; then the list that is
-- staged for it, as in `committed`, and its length; empty and 0: none.
-- needs: done, note_done, now, read_share
local function queue(n)
  -- needs: add, add_staged, has_staged, remove_acked, let_go; keys: states, settings; family: n
  local q = { states = states, add = add, add_staged = add_staged, remove_acked = remove_acked, let_go = let_go }
  q.has_staged, q.opening = has_staged, redis.call('HGET', settings, 'opening')
  return q
end

local queues, lost, refused, at = {}, { 0 }, nil, 3
while at <= #ARGV do
  local n = #queues + 1
  local q = queue(n)
  queues[n], at = q, read_share(q, at)
  for _, id in ipairs(done and {} or q.lost) do
    lost[#lost + 1], lost[#lost + 2] = n, id
  end
  if not done then
    refused = refused or not q.opened and -1 or not q.has_staged(q.member, q.length) and -2 or nil
  end
end
if #lost > 1 then
  return lost
elseif refused then
  return { refused }
end
local blocked = {}
for n, q in ipairs(done and {} or queues) do
  for _, group in ipairs(q.groups) do
    local known = q.add(ARGV, group.first, group.first + 2 * group.size - 1, group.delay, group.ttl, '')
    for k = 1, #known, 2 do
      local item = group.first + 2 * known[k] - 2
      if known[k + 1]:find('^dead') then
        blocked[#blocked + 1], blocked[#blocked + 2] = n, item
      end
      if known[k + 1]:find('/key', 1, true) then
        blocked[#blocked + 1], blocked[#blocked + 2] = n, -item
      end
    end
  end
  q.add_staged(q.member, grace)
end
if done then
  -- needs: known_before
  blocked = known_before()
else -- cut off before this, a repetition sends the rest; after it, acks the rest
  note_done(1, #blocked > 0 and table.concat(blocked, ' ') .. ' ' or '')
end
for _, q in ipairs(queues) do
  if #q.ids > 0 then
    q.remove_acked(q.ids, q.texts, {})
    q.let_go(q.held)
  end
end
table.insert(blocked, 1, 1)
return blocked
