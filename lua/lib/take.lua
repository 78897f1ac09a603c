-- Leases the messages at the head of `source` to the token, and adds them to the reply. Statements, not a
-- function: to define a function costs Redis as much as a command, and most claims need none. What only some
-- messages need is defined when the first of them comes.
local rows = redis.call('ZRANGE', source, 0, room - 1)
if #rows > 0 then
  local ids, chosen, seen, leased, mortal, gone, touched = {}, {}, {}, {}, {}, {}, nil
  for n, row in ipairs(rows) do
    ids[n] = row:sub(row:byte(1) < 16 and 9 or 3) -- as lib/id_of
  end
  local records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
  -- A first delivery, from where it was born. Over 64 bytes, or Redis would keep a few states in a list that it
  -- searches from the beginning.
  local fresh = 'live +' .. token .. ' 0000000000000 1 0 0 0 0 0 0000000000000'
  for n = 1, #ids do
    local id, text = ids[n], texts[n]
    local record = not seen[id] and records[n] -- a send that was cut off and repeated has two rows
    local line = record and fresh
    if record and (text or math.floor((record:byte(8) or 0) / 16) % 2 == 1) then -- or it has an expiry
      touched = touched or (function()
        -- @include lib/touched
      end)()
      line = touched(id, record, text, rows[n])
      mortal[#mortal + 1] = id
    end
    if not records[n] then
      gone[#gone + 1] = id
    elseif line then
      local size = #reply
      chosen[#chosen + 1], seen[id] = id, true
      leased[2 * #chosen - 1], leased[2 * #chosen] = id, line
      if answer == 'rows' then
        reply[size + 1], reply[size + 2], reply[size + 3] = id, record, line
        reply[size + 4] = text and redis.call('HGET', history, id) or ''
      end
    end
  end
  if #chosen > 0 then
    if answer == 'count' then
      reply[3] = #chosen
    end
    redis.call('ZADD', leases, now + lease, token)
    redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
    if attributed == '1' then -- its holder begins with the first at once, and says so of the others
      redis.call('HSET', claims, token .. ':begun', chosen[1])
    end
    redis.call('HSET', states, unpack(leased)) -- from here on they are leased
  end
  if #gone > 0 then -- left behind by a send or a purge that was cut off
    redis.call('HDEL', states, unpack(gone))
    redis.call('HDEL', history, unpack(gone))
  end
  redis.call('ZREM', source, unpack(rows))
  if #mortal > 0 then
    redis.call('ZREM', expiring, unpack(mortal))
  end
end
