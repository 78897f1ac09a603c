-- The sends and acks of a session, or of an ack that sends, take effect together, in several queues, or not at all. On a
-- cluster the queues must share a hash tag. The script records that all is sent before it acks anything, so a repetition
-- acks the rest (I12). Messages that are too large for one script were staged, and are moved afterwards (`move_staged`).
-- Returns 1 and the messages that were not sent (lib/send_shares). Or nothing was done: 0 and the messages that are not
-- held: the queue's number and the id, in pairs; -1: a queue was deleted since the client opened it; -2: a staged list has
-- outlived its time to live; -3 and the ids that are known (lib/refuse_known).
local number, grace = ARGV[1], ARGV[2] -- grace: milliseconds until maintenance moves the staged messages
local strict = ARGV[3] == '1' -- a known id refuses the whole commit
-- items from ARGV[4]: opening, acks, id, token, result; groups, delay, ttl, count, id, payload; member, length
-- For each queue: its opening (`lib/is_open.lua`); the number of its acks, and the acks with their results
-- (`lib/keep_results.lua`); the number of its groups of messages, and the groups, each with its delay and ttl
-- (milliseconds; 0: none) and its number of messages; then the list that is staged for it, as in `committed`, and its
-- length; empty and 0: no list.
-- needs: done, note_done, now, read_share
local function queue(n)
  -- needs: add, add_staged, has_staged, remove_acked, let_go; keys: states, settings; family: n
  local q = { states = states, add = add, add_staged = add_staged, remove_acked = remove_acked, let_go = let_go }
  q.has_staged, q.opening = has_staged, redis.call('HGET', settings, 'opening')
  if strict then
    -- needs: known_in
    q.known_in = known_in
  end
  return q
end

local queues, lost, refused, at = {}, { 0 }, nil, 4
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
if strict and not done then
  -- needs: refuse_known
  local known = refuse_known(queues)
  if known then
    return known
  end
end
local blocked
if done then
  -- needs: known_before
  blocked = known_before()
else
  -- needs: send_shares
  blocked = send_shares(queues)
  -- if cut off before this, a repetition sends the rest; if after it, it acks the rest
  note_done(1, #blocked > 0 and table.concat(blocked, ' ') .. ' ' or '')
end
for _, q in ipairs(queues) do
  if #q.ids > 0 then
    q.remove_acked(q.ids, q.texts, q.results)
    q.let_go(q.held)
  end
end
table.insert(blocked, 1, 1)
return blocked
