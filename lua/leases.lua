-- A claim has one lease, under its token: the messages that it was given, and how many of these it still holds.
--
-- A lease belongs to a claim, not to a message: one entry for up to 1,000 messages, one ZADD to extend it. The list of
-- ids is written once; the states say which of them the claim still holds. So a claim can be repeated after a lost
-- reply, read again, extended and settled as a batch. `extend` on one delivery extends all messages of its claim.
local MOST = 1000 -- the most messages that a claim is given

-- The verdict on a message that the caller's token does not hold. The state has the token that settled it, so that a call
-- whose reply was lost can be repeated (I12). If its ack put the message back (again.lua), what it held is gone.
function Leases.refusal(q, id, token, text)
  if text and (text .. ' '):find(' acked=' .. token .. ' ', 1, true) then
    return Reply.GONE
  elseif text and text:find(' -' .. token .. ' ', 1, true) then
    return Reply.SETTLED_BEFORE
  end
  return redis.call('HEXISTS', q.messages, id) == 1 and Reply.LOST or Reply.GONE
end

-- The ids that a claim was given, except those that a sweep or a division took away, which leave empty lines in its list.
function Leases.ids_of(q, token)
  local list = (redis.call('HGET', q.claims, token) or ''):match('\n(.*)$') or ''
  local ids, size = {}, 0
  for id in list:gmatch('[^\n]+') do
    if size == MOST then
      break
    end
    size = size + 1
    ids[size] = id
  end
  return ids
end

-- The consumer that was given the messages of a claim, as a JSON text.
function Leases.holder(q, token)
  local holders = q.holders
  holders[token] = holders[token] or (redis.call('HGET', q.claims, token) or ''):match('^[^\t\n]*')
  return holders[token]
end

-- When a claim handed its messages out, and how many the queue's rate had allowed by then, with these (Rates.bucket). nil:
-- the claim noted neither, since the queue had no rate.
function Leases.handed_out(q, token)
  local at, spent = (redis.call('HGET', q.claims, token) or ''):match('^[^\n]*\t(%d+)/(%d+)\n')
  return tonumber(at), tonumber(spent)
end

-- Removes a claim that holds no message any more.
function Leases.remove(q, token)
  redis.call('HDEL', q.claims, token, token .. ':held')
  redis.call('ZREM', q.leases, token) -- last: by this row a sweep finds what a cut-off call left
end

-- Takes settled messages off their claims. A lease is removed with the last of its messages.
--   counts: token → how many
function Leases.take_off(q, counts)
  for token, count in pairs(counts) do
    if redis.call('HINCRBY', q.claims, token .. ':held', -count) <= 0 then
      Leases.remove(q, token)
    end
  end
end
