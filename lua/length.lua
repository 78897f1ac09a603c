-- How many messages a queue may have: those that are ready, scheduled or leased count.
--
-- These are the records of the queue without its dead and expired ones: three numbers that Redis has, so nothing is kept.
-- But a send names two keys more for that. So queues with a limit have a verb of their own (`send_limited`): `send` does
-- nothing there, says so, and the client remembers it for as long as it runs.
--
-- - Sends, commits, ticks, and an operator's moves and copies ask. A message of the queue comes back whenever it has
--   to: nacks, lapses, releases, redrives. Messages of Spark's jobs are never refused: their rows are committed already.
-- - What is sent together is refused together, before anything is written, and the refusal is not noted as a call that
--   was done. Known ids are not counted. A commit goes by what its acks remove from the same queue. A staged session is
--   refused: it is moved after its commit, and other senders could fill the queue meanwhile.
-- - Of a call of an outbox what there is room for is sent, and that is noted (Register.note_part): all of it might never
--   fit. The relay makes the call again for what is left.

-- How many more messages a queue may take, and how many it has; nil: it has no limit.
--   limit: its max_length, as it is set
function Length.room(q, limit)
  limit = limit:match('^[1-9]%d*$')
  if limit then
    local count = redis.call('HLEN', q.messages) - redis.call('ZCARD', q.dead) - redis.call('ZCARD', q.expired)
    return tonumber(limit) - count, count
  end
end

-- The refusal of so many more messages: FULL and how many the queue has; nil: it has room.
function Length.over(q, limit, more)
  local room, count = Length.room(q, limit)
  return room and more > 0 and more > room and { Reply.FULL, count } or nil
end

-- Sends as many items of an outbox's call, from `first` on, as there is room for. Returns how many messages there are then.
local function send_part(q, ARGV, first, delay, ttl, opening)
  local room, count = Length.room(q, redis.call('HGET', q.settings, 'max_length'))
  if room <= 0 then
    return count
  end
  Send.add(q, ARGV, first, first + 2 * room - 1, delay, ttl, opening, true, Length.over)
  Register.note_part(q, ARGV[1], (#ARGV + 1 - first) / 2 - room)
  return count + room
end

-- Adds messages to a queue that may have a `max_length`, as `send` does. Or nothing was sent: also FULL and how many
-- messages the queue has; but of an outbox's call, what there was room for was sent.
function Verbs.send_limited(q, ARGV)
  local number, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- these as in `send`
  local opening = ARGV[4]
  local stays = ARGV[5] == '1'
  -- items from ARGV[6]: id, payload
  local done, noted = Register.done_before(q, number)
  if done then
    return Send.reply_before(noted)
  elseif Ttl.is_past(q, ttl) and not stays then
    return Reply.PAST
  end
  local first = stays and Register.first_left(ARGV, noted) or Register.ITEMS
  local reply, refusal = Send.add(q, ARGV, first, #ARGV, delay, ttl, opening, true, Length.over)
  if not reply then
    if stays and type(refusal) == 'table' then -- it is full
      refusal[2] = send_part(q, ARGV, first, delay, ttl, opening)
    end
    return refusal
  end
  Send.note_done(q, number, reply, stays)
  return Register.numbered(reply, first)
end
