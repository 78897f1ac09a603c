-- Leases the first messages of its index to the token, and adds them to the reply: `chosen` are their ids. Statements, not
-- functions, since every claim runs them: a function costs Redis as much as a command, and more for each outer name that it
-- uses. Functions that are rarely needed are defined when they are needed.
-- needs: reply, source, now, rows, ids, texts, long
-- needs: keys: messages, states, history, expiring, leases, claims; args: token, answer, suspects, lease, consumer
-- gives: chosen, taken
local NOT_FRESH = 4096 -- bytes that a message that is not fresh counts for, since it takes as long
local most = 524288 -- bytes that it leases, or one message (I9)
local records, read, spent = {}, 0, 0
local chosen, seen, leased, taken, mortal, not_fresh = {}, {}, {}, {}, nil, nil
local size, ends, leaves = 0, #reply, 0 -- the lengths of chosen, reply and taken: # would search for them
-- The state of a first delivery. Over 64 bytes: Redis would keep a few shorter states in a list, which it searches.
local fresh = 'live +' .. token .. ' 0000000000000 1 0 0 0 0 0 0000000000000'
for place = 1, #ids do
  if spent > most then -- the rest stays
    break
  elseif place > read and not long then
    records, read = redis.call('HMGET', messages, unpack(ids)), #ids
  elseif place > read then
    -- needs: read_records
    records, read = read_records(records, ids, texts, place, most - spent)
  end
  local id, text = ids[place], texts[place]
  local record = not seen[id] and records[place] -- a message whose send was cut off and repeated has two rows
  local line = record and fresh
  local touched = record and (text or (record:byte(8) or 0) % 32 > 9) -- or its flags hold more than a priority
  if touched then
    not_fresh = not_fresh or (function()
      -- needs: not_fresh_line
      return not_fresh_line
    end)()
    line = not_fresh(source, rows[place], id, record, text)
    most = most - NOT_FRESH
  end
  if line ~= 'later' then -- otherwise the row stays
    taken[leaves + 1], leaves = rows[place], leaves + 1
    if touched then
      mortal = mortal or {}
      mortal[#mortal + 1] = id
    end
    if not records[place] then -- left behind by a send or a purge that was cut off
      -- needs: drop
      drop({ id })
    elseif line then
      size = size + 1
      chosen[size], seen[id], leased[2 * size - 1], leased[2 * size] = id, true, id, line
      local story = text and redis.call('HGET', history, id) or ''
      spent = spent + #record + #story
      if answer == 'rows' then
        reply[ends + 1], reply[ends + 2], reply[ends + 3], reply[ends + 4] = id, record, line, story
        ends = ends + 4
      end
    end
  end
end
if #chosen > 0 then
  if answer == 'count' then
    reply[3], reply[4] = #chosen, spent
  end
  redis.call('ZADD', leases, now + lease, token)
  local kind = answer == 'count' and '\tbatch' or suspects ~= 'all' and '\tworker' or '' -- the sweep reads it
  redis.call('HSET', claims, token, consumer .. kind .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
  redis.call('HSET', states, unpack(leased)) -- from here on they are leased
end
if #taken > 0 then
  redis.call('ZREM', source, unpack(taken))
  if mortal then
    redis.call('ZREM', expiring, unpack(mortal))
  end
end
