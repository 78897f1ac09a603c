-- What gathers consist of (gathers.lua) is opened, grows, is closed, and comes together.
local HOUR = 3600000 -- milliseconds between two looks whether `then` is still there

-- The state, the head and the row of `then`, while it waits for its gather; nil: it was delivered, or is gone, or is due.
local function waiting(q, id)
  local state, head = State.read(q, id)
  if not state or state.part ~= 'live' or state.mark == '+' or state.deliveries > 0 or state.due <= q.now then
    return nil
  elseif not redis.call('ZSCORE', q.gathers, '+' .. Gathers.own(id)) then
    return nil
  end
  local row = Order.member_of(id, head, state.due)
  local score = tonumber(redis.call('ZSCORE', q.scheduled, row) or nil)
  return score and score < Lanes.BLOCKED and state or nil, head, row
end

-- Makes `then` due if its gather is closed and all shares have come.
function Gathering.complete(q, id)
  local gather = Gathers.own(id)
  local number, closed = Gathers.number_of(q, gather)
  if not closed or Gathers.count_open(q, number) > 0 then
    return
  end
  local state, head, row = waiting(q, id)
  if state then
    state.due = q.now
    Places.leave(q, id, q.scheduled, row, Places.put(q, id, state, head))
    Queue.wake(q)
  end
  redis.call('ZREM', q.gathers, '+' .. gather)
end

-- Whether a gather takes more children: it is open, and `then` waits.
function Gathering.takes(q, id)
  local number, closed = Gathers.number_of(q, Gathers.own(id))
  return number and not closed and waiting(q, id) and number or nil
end

-- Adds the rows of a new gather, first: when `then` is not there, they are removed at the next look.
local function begin(q, id, within)
  if redis.call('HEXISTS', q.messages, id) == 0 then -- otherwise the reply says that the id is known
    local gather = Gathers.own(id)
    redis.call(
      'ZADD', q.gathers, Gathers.new_number(q), gather, Gathers.WAITING + q.now, '+' .. gather,
      q.now + within, '@' .. gather
    )
  end
end

-- Opens a gather: sends `then`, to be delivered after `within` if nothing makes it due before. Returns the reply of `send`.
function Verbs.open_gather(q, ARGV)
  local number, opening, within = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- within: milliseconds
  -- items from ARGV[4]: id, payload
  local done, before = Register.done_before(q, number)
  if done then
    return Send.reply_before(before)
  elseif not Queue.is_open(q, opening) then
    return Reply.DELETED
  end
  begin(q, ARGV[4], within)
  local reply, refusal = Send.add(q, ARGV, 4, #ARGV, within, 0, opening, true, nil, Gathers.THEN)
  if redis.call('HEXISTS', q.messages, ARGV[4]) == 0 then -- nothing was sent: its id is known by an earlier message
    Gathers.forget(q, Gathers.own(ARGV[4]))
  end
  if not reply then
    return refusal
  end
  Send.note_done(q, number, reply)
  return reply
end

-- The items whose messages cannot be children, by their numbers; nil: all can.
local function refused(q, there, gather, ARGV, first)
  local numbers = { Reply.KNOWN }
  for at = first, #ARGV, 2 do
    if not Gathers.adopted(q, there, gather, 0, ARGV[at], true) then
      numbers[#numbers + 1] = (at - first) / 2 + 1
    end
  end
  return numbers[2] and numbers
end

-- The number of the share of a gather, which is made if it is not there; the queue of `then` has its row.
--   own: the number of the gather there; name: of this queue
local function share_of(q, there, gather, own, id, name)
  local number, row = Gathers.number_of(q, gather), Gathers.own(id) .. ' ' .. name
  if number and not redis.call('ZSCORE', there.gathers, row) then -- of an earlier gather whose `then` had this id
    Gathers.forget(q, gather)
    number = nil
  end
  if not number then
    redis.call('ZADD', there.gathers, own + Gathers.OPEN, row)
    number = Gathers.new_number(q)
    redis.call('ZADD', q.gathers, number, gather, q.now + Gathers.LOOK, '@' .. gather)
  end
  return number
end

-- Sends children of a gather. A message that the queue knows becomes one, if it is not a child of another gather. Returns
-- the reply of `send`. Or nothing was sent: OVER: the gather takes no more; KNOWN and the numbers of items that cannot be
-- children; DELETED; WRONG_LANE; PAST.
function Verbs.send_children(q, ARGV, there)
  local number, id, to, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4] -- id: of `then`; to: its queue; name: of this queue
  local delay, ttl, opening = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] -- delay, ttl: as in Send.add
  -- items from ARGV[8]: id, payload
  local done, before = Register.done_before(q, number)
  if done then
    return Send.reply_before(before)
  elseif not Queue.is_open(q, opening) then
    return Reply.DELETED
  end
  local gather = Gathers.named(id) .. '/' .. to
  local own = Gathering.takes(there, id)
  local refusal = own and refused(q, there, gather, ARGV, 8)
  if not own or refusal then
    return refusal or Reply.OVER
  end
  if Ttl.is_past(q, ttl) then
    return Reply.PAST
  end
  local share = share_of(q, there, gather, own, id, name)
  local reply, refusal_of_all = Send.add(q, ARGV, 8, #ARGV, delay, ttl, opening, true, nil, gather)
  if not reply then
    return refusal_of_all
  end
  local rows = {}
  for at = 8, #ARGV, 2 do
    rows[at - 7], rows[at - 6] = Gathers.adopted(q, there, gather, share, ARGV[at]), gather .. ' ' .. ARGV[at]
  end
  redis.call('ZADD', q.gathers, unpack(rows))
  Send.note_done(q, number, reply)
  return reply
end

-- Closes a gather: no more children follow, and `then` is due when all have ended. Returns the numbers of the queues whose
-- children have all ended, whose shares the caller carries.
-- drains
function Verbs.close_gather(q, ARGV, queues)
  local id, to = ARGV[1], ARGV[2] -- id: of `then`; to: its queue
  local gather, own, ended = Gathers.named(id) .. '/' .. to, Gathers.own(id), {}
  for n, there in ipairs(queues) do
    local number = Gathers.number_of(there, gather)
    if number then
      redis.call('ZADD', there.gathers, number + Gathers.CLOSED, gather)
      ended[#ended + 1] = Gathers.settle(there, gather, number) and n or nil
    end
  end
  local number = Gathers.number_of(q, own)
  if number then
    redis.call('ZADD', q.gathers, number + Gathers.CLOSED, own)
    Gathering.complete(q, id)
  end
  return ended
end

-- Moves ended children to the queue of `then`, at most `limit` of them. Returns whether none is left.
--   own: the number of the gather there; nil: it is gone, and so are they
local function move(q, there, number, gather, own, target, limit)
  local rows, members, moved = Gathers.rows(q, number, true, 0, limit), {}, {}
  for n = 1, #rows, 2 do
    members[#members + 1] = rows[n]
    moved[n], moved[n + 1] = (own or 0) + rows[n + 1] % 1, target .. ' ' .. rows[n]:sub(#gather + 2)
  end
  if own and moved[1] then
    redis.call('ZADD', there.gathers, unpack(moved))
  end
  if members[1] then
    redis.call('ZREM', q.gathers, unpack(members))
  end
  return #members < limit
end

-- Claims look for shares to carry while the settings say that there are any.
local function calm(q)
  if redis.call('ZCOUNT', q.gathers, 0, 0) == 0 then
    redis.call('HDEL', q.settings, 'gathering')
  end
end

-- Looks at the gather of a `then` in this queue: when that is gone, and its end was not noted, the gather is removed.
local function look_at_own(q, gather)
  local id = Gathers.id_of(gather)
  if redis.call('HEXISTS', q.messages, id) == 0 or not Gathers.number_of(q, gather) then
    Gathers.forget(q, gather)
    return 0
  elseif not waiting(q, id) then
    redis.call('ZREM', q.gathers, '+' .. gather)
  end
  redis.call('ZADD', q.gathers, q.now + HOUR, '@' .. gather)
  return 0
end

-- Looks at the share of a gather: ends that were not noted are found; if all children have ended, and no more follow, they
-- are carried to the queue of `then`, which is made due with the last share. Returns 1 if the share has more to carry now,
-- 0 if not; EARLY: it is not time to look.
-- drains
function Verbs.carry_gather(q, ARGV, there)
  local gather, name, limit, seed = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]) -- name: of this queue
  if (tonumber(redis.call('ZSCORE', q.gathers, '@' .. gather) or nil) or 0) > q.now then
    return Reply.EARLY
  elseif gather:sub(1, 1) == '#' then
    return look_at_own(q, gather)
  end
  local to = '#' .. gather:match('^[^/]*') -- the name of the gather there
  local number, closed = Gathers.number_of(q, gather)
  local row, id = to .. ' ' .. name, Gathers.id_of(to)
  local own = redis.call('ZSCORE', there.gathers, row) and Gathers.number_of(there, to) -- nil: a later one may have the id
  if not number then
    redis.call('ZREM', q.gathers, '@' .. gather)
    calm(q)
    return 0
  elseif not closed and not Gathering.takes(there, id) then -- its opener did not close it in time
    closed = true
    redis.call('ZADD', q.gathers, number + Gathers.CLOSED, gather)
  end
  if Gathers.find_ends(q, gather, number, limit, seed) then
    return 1
  elseif not closed or Gathers.count_open(q, number) > 0 then
    redis.call('ZADD', q.gathers, q.now + Gathers.LOOK, '@' .. gather)
    calm(q)
    return 0
  elseif not move(q, there, number, gather, own, row, limit) then
    return 1
  end
  redis.call('ZREM', there.gathers, row)
  Gathering.complete(there, id)
  Gathers.forget(q, gather)
  calm(q)
  return 0
end

-- Cancels a message that waits. Returns whether it did.
local function cancel(q, id)
  local state, head = State.read(q, id)
  if not state or state.part ~= 'live' or state.mark == '+' then
    return false
  end
  Cancel.remove(q, id, state, head)
  return true
end

-- Cancels the children of a gather in this queue that wait, or its `then`, if that waits for them. The share takes no more.
-- Returns how many messages were cancelled, and how many that it looked at were left, since they are leased.
-- drains
function Verbs.cancel_gather(q, ARGV)
  local gather, from, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- from: how many open children were left before
  local act = ARGV[4] -- as in Audit.note_act
  local count, left = 0, 0
  if gather:sub(1, 1) == '#' then
    local id = Gathers.id_of(gather)
    count = waiting(q, id) and cancel(q, id) and 1 or 0
  else
    local number = Gathers.number_of(q, gather)
    local rows = number and Gathers.rows(q, number, false, from, limit) or {}
    if number then
      redis.call('ZADD', q.gathers, number + Gathers.CLOSED, gather)
    end
    for n = 1, #rows, 2 do
      local cancelled = cancel(q, rows[n]:sub(#gather + 2))
      count, left = count + (cancelled and 1 or 0), left + (cancelled and 0 or 1)
    end
    if number then
      Gathers.settle(q, gather, number)
    end
  end
  Audit.note_act(q, act, count)
  return { count, left }
end
