-- Messages that are in no index and in no claim are found and put back.
--
-- A key that is deleted, or restored in part, leaves messages that nothing leads to. Once a minute maintenance checks
-- whether the numbers of messages, rows and claimed ids add up. If they do not, `reindex` walks through the records with
-- HSCAN, some per call. Claims do not check, since that would cost each idle client. A walk that ends with messages missing
-- begins anew after ten minutes, since a cursor means nothing after a restart.
local MOST, PAGE = 5000, 1000 -- claims that one call reads (I9), and a page of them
local LEASE = 30000 -- milliseconds, as usual, for a holder whose lease is lost; it may be alive, and extend it
local PAUSE = 600000 -- milliseconds until it begins again, if it did not find all

-- How many messages are in no index and in no claim that has a lease. Each message is in one of them, unless another
-- program deleted or restored a key. With more than MOST claims the number is unknown: 0.
function Reindex.count_orphans(q)
  local count = Places.count_outside(q)
  if count <= 0 or redis.call('ZCARD', q.leases) > MOST then
    return 0
  end
  for first = 0, MOST - 1, PAGE do
    local tokens = redis.call('ZRANGE', q.leases, first, first + PAGE - 1)
    for n, token in ipairs(tokens) do
      tokens[n] = token .. ':held'
    end
    for _, held in ipairs(#tokens > 0 and redis.call('HMGET', q.claims, unpack(tokens)) or {}) do
      count = count - (tonumber(held or 0) or 0)
    end
    if #tokens < PAGE then
      break
    end
  end
  return math.max(count, 0)
end

-- Puts a message on the list of the claim whose token holds it, and gives that a lease. Returns whether it lacked either.
-- The kind of a claim whose list is lost is unknown: as of a batch, its lapse is not charged.
local function hold(q, id, token)
  local list, is_leased = redis.call('HGET', q.claims, token), redis.call('ZSCORE', q.leases, token)
  local is_listed = list and (list .. '\n'):find('\n' .. id .. '\n', 1, true)
  if not is_listed then
    redis.call('HSET', q.claims, token, (list or '\tbatch') .. '\n' .. id)
    redis.call('HINCRBY', q.claims, token .. ':held', 1)
  end
  if not is_leased then
    redis.call('ZADD', q.leases, q.now + LEASE, token)
  end
  return not (is_listed and is_leased)
end

-- Puts a message back, if it is in no index and no claim, where its record and its state say. Whether it did.
local function put_back(q, id, record)
  local text = redis.call('HGET', q.states, id)
  if Record.is_later(record, text) then -- only a later version can tell where it belongs
    return false
  end
  local head = Record.head_in(record, text)
  local state = State.parse(text, head.birth)
  if state.mark == '+' then
    return hold(q, id, state.token)
  elseif not Places.orphaned(q, id, state, head) then
    return false
  end
  Places.put(q, id, state, head, state.due > q.now, state.more:match(' rest=(%d+)'))
  return true
end

-- Scans messages from a cursor on, of whose page some were read, since Redis returns a small hash as a whole. Returns how
-- many it checked, how many it put back, and where the next call continues; nil: all were read.
local function look(q, cursor, skipped, limit)
  local looked, bytes, back = 0, 0, 0
  while looked < limit and bytes <= Bounds.BYTES do
    local reply = redis.call('HSCAN', q.messages, cursor, 'COUNT', 1)
    local next_cursor, page = reply[1], reply[2]
    local first = 2 * tonumber(skipped) + 1
    local last = math.min(#page, first + 2 * (limit - looked) - 1)
    for n = first, last, 2 do
      looked, bytes = looked + 1, bytes + #page[n + 1]
      if put_back(q, page[n], page[n + 1]) then
        back = back + 1
      end
    end
    if last < #page then
      skipped = last / 2
    elseif next_cursor == '0' then
      return looked, back, nil
    else
      cursor, skipped = next_cursor, 0
    end
  end
  return looked, back, cursor .. ' ' .. skipped
end

-- Puts messages back that are in no index and no claim. Scans all messages, some per call, while any is missing. Returns
-- how many it checked; 0: nothing is left to do, or only a later version can do it.
-- drains
function Verbs.reindex(q, ARGV)
  local limit = tonumber(ARGV[1])
  local noted = redis.call('GET', q.reindexed)
  if noted == 'done' or not noted and Reindex.count_orphans(q) == 0 then
    return 0
  end
  local cursor, skipped = (noted or '0 0'):match('^(%d+) (%d+)$')
  local looked, back, continues = look(q, cursor, skipped, limit)
  if back > 0 then
    redis.call('HINCRBY', q.counters, 'reindexed', back)
    Queue.wake(q)
  end
  local may_be_over = not continues or back > 0 and back < looked -- if all of these were missing, others are
  if may_be_over and Reindex.count_orphans(q) == 0 then
    redis.call('DEL', q.reindexed)
  else
    redis.call('SET', q.reindexed, continues or 'done', 'PX', PAUSE)
  end
  return math.max(1, looked)
end
