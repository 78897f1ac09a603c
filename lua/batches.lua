-- Whole claims, by their tokens, and the batches of streaming queries that take such claims (Spark).

local MOST_STREAMS = 1000 -- queries that `delete` finds: those that called last

-- Restarts the leases of whole claims. Returns 1 for each claim that still holds messages, 0 for one that has ended.
-- drains
function Verbs.extend_claim(q, ARGV)
  local lease = ARGV[1] -- milliseconds
  -- items from ARGV[2]: token
  local reply = {}
  for i = 2, #ARGV do
    local held = redis.call('ZSCORE', q.leases, ARGV[i])
    if held then
      redis.call('ZADD', q.leases, q.now + lease, ARGV[i])
    end
    reply[#reply + 1] = held and 1 or 0
  end
  return reply
end

-- The messages that a claim still holds, and their states.
local function held_by(q, token)
  local ids, held, held_texts, size = Leases.ids_of(q, token), {}, {}, 0
  local texts = #ids > 0 and redis.call('HMGET', q.states, unpack(ids)) or {}
  local text, is_held -- most messages have the same state
  for n, id in ipairs(ids) do
    if text ~= texts[n] then
      text, is_held = texts[n], State.holds(token, texts[n])
    end
    if is_held then
      size = size + 1
      held[size], held_texts[size] = id, text
    end
  end
  return held, held_texts
end

-- Acks all messages that a claim still holds, not those that were settled individually or redelivered. Returns how many.
-- drains
function Verbs.ack_claim(q, ARGV)
  local token, batch = ARGV[1], tonumber(ARGV[2]) -- batch: how many messages it has, in all of its claims; 0: not known
  local ids, texts = held_by(q, token)
  if #ids > 0 then
    Acks.remove(q, ids, texts, {}, 2 * math.max(batch, #ids))
  end
  Leases.remove(q, token)
  return #ids
end

-- Divides a claim: it keeps the first `keep` messages that it still holds, and the others go to another token, under a
-- lease that ends at the same time. The call can be repeated. Returns how many messages the other token holds.
-- drains
function Verbs.divide_claim(q, ARGV)
  local token, to, keep = ARGV[1], ARGV[2], tonumber(ARGV[3])
  local maker, list = (redis.call('HGET', q.claims, token) or '\n'):match('^([^\n]*)\n(.*)$')
  local ends = redis.call('ZSCORE', q.leases, token) or 0
  local given, wanted = Leases.ids_of(q, to), {}
  for _, id in ipairs(given) do -- an earlier call made this division, or a part of it
    wanted[id] = true
  end
  local ids, texts = held_by(q, token)
  local moved, stated = {}, {}
  for n, id in ipairs(ids) do
    if wanted[id] or #given == 0 and n > keep then
      local first, last = texts[n]:find(' +' .. token .. ' ', 1, true)
      moved[#moved + 1], wanted[id] = id, true
      stated[#stated + 1], stated[#stated + 2] = id, texts[n]:sub(1, first) .. '+' .. to .. texts[n]:sub(last)
    end
  end
  local kept = #ids - #moved
  if #moved > 0 then
    redis.call('ZADD', q.leases, ends, to)
    local its = maker:gsub('^([^\t]*\t[^\t]*\t)%d+', '%1') -- without the line where the sweep of the first claim continues
    redis.call('HSET', q.claims, to, its .. '\n' .. table.concat(moved, '\n'), to .. ':held', #moved)
    redis.call('HSET', q.states, unpack(stated)) -- from here on the other token holds them
  end
  if kept > 0 then
    local left = list:gsub('[^\n]+', function(id)
      return wanted[id] and '' or id
    end)
    redis.call('HSET', q.claims, token, maker .. '\n' .. left, token .. ':held', kept)
  else
    Leases.remove(q, token)
  end
  return tonumber(redis.call('HGET', q.claims, to .. ':held') or 0)
end

-- Keeps the progress of a query, and notes where it is, so that `delete` finds it.
local function remember(q, remembered)
  redis.call('PEXPIRE', q.stream, remembered)
  redis.call('ZADD', q.streams, q.now, q.stream)
  if redis.call('ZCARD', q.streams) > MOST_STREAMS then
    redis.call('ZREM', q.streams, redis.call('ZRANGE', q.streams, 0, 0)[1])
  end
  redis.call('PEXPIRE', q.streams, remembered)
end

-- Begins a batch of a streaming query. If another run of the query had begun the same batch, that run failed before the
-- batch was done. Returns the last batch that is done; how often this one has failed; 1 if it is one half of a batch that
-- failed too often; and how often the query has failed since a batch with rows succeeded.
-- drains
function Verbs.begin_batch(q, ARGV)
  local batch, run, remembered = ARGV[1], ARGV[2], ARGV[3] -- remembered: milliseconds
  local stored = redis.call('HMGET', q.stream, 'done', 'batch', 'run', 'failures', 'half', 'in_a_row')
  local failures, in_a_row = stored[2] == batch and tonumber(stored[4]) or 0, tonumber(stored[6]) or 0
  if stored[2] == batch and stored[3] ~= run then
    failures, in_a_row = failures + 1, in_a_row + 1
  end
  local done = stored[1] or 0
  redis.call('HSET', q.stream, 'done', done, 'batch', batch, 'run', run, 'failures', failures, 'in_a_row', in_a_row)
  remember(q, remembered)
  return { tonumber(done), failures, stored[5] == batch and 1 or 0, in_a_row }
end

-- Records the progress of a streaming query: the last batch that is done, or one that is half of a batch before it. The
-- number never decreases. A batch with rows that is done ends a series of failures, and its rows are no longer suspected.
-- Returns the number, and how many messages are suspected; or OVERTAKEN.
-- drains
function Verbs.note_batch(q, ARGV)
  local field, batch = ARGV[1], tonumber(ARGV[2]) -- field: done or half
  local run, remembered = ARGV[3], ARGV[4] -- run: empty for any run; remembered: milliseconds
  local stored = redis.call('HMGET', q.stream, field, 'batch', 'run', 'rows', 'suspected')
  local before, rows, suspected = tonumber(stored[1]) or 0, tonumber(stored[4]) or 0, tonumber(stored[5]) or 0
  if run ~= '' and tonumber(stored[2]) == batch and stored[3] ~= run then
    return Reply.OVERTAKEN
  end
  local known = math.max(batch, before)
  redis.call('HSET', q.stream, field, known)
  if field == 'done' and known > before and rows > 0 then
    suspected = math.max(suspected - rows, 0)
    redis.call('HSET', q.stream, 'in_a_row', 0, 'suspected', suspected, 'alone', '')
  end
  remember(q, remembered)
  return { known, suspected }
end
