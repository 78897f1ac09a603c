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

-- Acks all messages that a claim still holds, not those that were settled individually or redelivered. Returns how many.
-- drains
function Verbs.ack_claim(q, ARGV)
  local token = ARGV[1]
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
  if size > 0 then
    Acks.remove(q, held, held_texts, {})
  end
  redis.call('HDEL', q.claims, token, token .. ':held')
  redis.call('ZREM', q.leases, token) -- last: by this row a sweep finds what a cut-off script left
  return size
end

-- Divides a claim: it keeps the first `keep` messages that it still holds, and the others go to another token, under a
-- lease that ends at the same time. The messages stay leased; their counts and histories do not change. The call can be
-- repeated. Returns how many messages the other token holds.
-- drains
function Verbs.divide_claim(q, ARGV)
  local token, to, keep = ARGV[1], ARGV[2], tonumber(ARGV[3])
  local maker, list = (redis.call('HGET', q.claims, token) or '\n'):match('^([^\n]*)\n(.*)$')
  local ends = redis.call('ZSCORE', q.leases, token) or 0
  local given, wanted = Leases.ids_of(q, to), {}
  for _, id in ipairs(given) do -- an earlier call made this division, or a part of it
    wanted[id] = true
  end

  local ids, moved, stated, kept = Leases.ids_of(q, token), {}, {}, 0
  local texts = #ids > 0 and redis.call('HMGET', q.states, unpack(ids)) or {}
  for n, id in ipairs(ids) do
    if State.holds(token, texts[n]) then
      if wanted[id] or #given == 0 and kept == keep then
        local first, last = texts[n]:find(' +' .. token .. ' ', 1, true)
        moved[#moved + 1], wanted[id] = id, true
        stated[#stated + 1], stated[#stated + 2] = id, texts[n]:sub(1, first) .. '+' .. to .. texts[n]:sub(last)
      else
        kept = kept + 1
      end
    end
  end
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
    redis.call('HDEL', q.claims, token, token .. ':held')
    redis.call('ZREM', q.leases, token) -- last: by this row a sweep finds what a cut-off script left
  end
  return tonumber(redis.call('HGET', q.claims, to .. ':held') or 0)
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
  redis.call('PEXPIRE', q.stream, remembered)
  return { tonumber(done), failures, stored[5] == batch and 1 or 0, in_a_row }
end

-- Records the progress of a streaming query: the last batch that is done, or one that is half of a batch before it. The
-- number never decreases. A batch with rows that is done ends a series of failures, and its rows are no longer suspected.
-- Returns the number, or -1 if another run of the query has begun the batch since `run` did; and how many messages are
-- suspected.
-- drains
function Verbs.note_batch(q, ARGV)
  local field, batch = ARGV[1], tonumber(ARGV[2]) -- field: done or half
  local run, remembered = ARGV[3], ARGV[4] -- run: empty for any run; remembered: milliseconds
  local stored = redis.call('HMGET', q.stream, field, 'batch', 'run', 'rows', 'suspected')
  local before, rows, suspected = tonumber(stored[1]) or 0, tonumber(stored[4]) or 0, tonumber(stored[5]) or 0
  if run ~= '' and tonumber(stored[2]) == batch and stored[3] ~= run then
    return { -1, suspected }
  end
  local known = math.max(batch, before)
  redis.call('HSET', q.stream, field, known)
  if field == 'done' and known > before and rows > 0 then
    suspected = math.max(suspected - rows, 0)
    redis.call('HSET', q.stream, 'in_a_row', 0, 'suspected', suspected, 'alone', '')
  end
  redis.call('PEXPIRE', q.stream, remembered)
  return { known, suspected }
end
