-- Adds the items (id, payload, …) from items[first] to items[last], except ids that the queue has or, by its
-- dedup_window, remembers (I12). Returns which it knew: 1 is the first; nil, and adds none, if `opening` is outdated.
-- needs: now, EXPIRES, LONG, pack_number, pack_birth, score_of, member_of, wake_one
-- needs: keys: messages, states, ready, scheduled, expiring, counters, settings
-- gives: add
local function add(items, first, last, delay, ttl, opening)
  local ids, seen = {}, {}
  for i = first, last, 2 do
    ids[#ids + 1] = items[i]
  end
  local values = redis.call('HMGET', settings, 'expiry', 'paused', 'dedup_window', 'opening')
  if opening and values[4] ~= opening then return nil end
  if values[1] then
    -- needs: allowed_ttl
    ttl = allowed_ttl(ttl, values[1])
  end
  local birth = math.max(now * 4096, (tonumber(redis.call('HGET', counters, 'birth')) or 0) + 1)
  local existing = redis.call('HMGET', messages, unpack(ids))
  if values[3] then
    -- needs: recall_acked
    recall_acked(ids, existing, values[3])
  end
  local known, records, rows, size, head, stated, deadlines, char = {}, {}, {}, 0, {}, {}, {}, string.char
  local ends, expiry = ttl > 0 and string.format('%.0f', now + ttl), ttl > 0 and pack_number(now + ttl, 6)
  local due, score, lead, order -- of all messages whose births differ in the last byte alone
  for n, id in ipairs(ids) do
    if existing[n] or seen[id] then
      known[#known + 1] = n
    else
      local payload, low = items[first + 2 * n - 1], birth % 256
      if low == 0 or payload:byte(1) % EXPIRES ~= head.priority then
        head.birth, head.priority = birth, payload:byte(1) % EXPIRES
        local born = (birth - birth % 4096) / 4096 -- what is delayed is never due then, see lib/order
        due = delay == 0 and born or now + delay ~= born and now + delay or born + 1
        score = string.format('%.0f', delay > 0 and due or score_of(head.priority, due)) -- printed once
        lead, order = pack_birth(birth):sub(1, -2), member_of('', head, due):sub(1, -2)
      end
      if ttl > 0 then
        payload = char(payload:byte(1) + EXPIRES) .. expiry .. payload:sub(2)
        deadlines[size + 1], deadlines[size + 2] = ends, id
      end
      local record, word = lead .. char(low) .. payload, ''
      if #record > LONG then
        -- needs: head_word
        word = head_word(record)
      end
      if delay > 0 or word ~= '' then
        stated[#stated + 1], stated[#stated + 2] = id, 'live - ' .. (delay > 0 and due or 0) .. ' 0 0 0 0 0 0 0' .. word
      end
      records[size + 1], records[size + 2], rows[size + 1], rows[size + 2] = id, record, score, order .. char(low) .. id
      seen[id], birth, size = true, birth + 1, size + 2
    end
  end
  if #records > 0 then
    redis.call('HSET', counters, 'birth', string.format('%.0f', birth - 1))
    redis.call('ZADD', delay > 0 and scheduled or ready, unpack(rows))
    if #stated > 0 then
      redis.call('HSET', states, unpack(stated))
    end
    if ttl > 0 then
      redis.call('ZADD', expiring, unpack(deadlines))
    end
    redis.call('HSET', messages, unpack(records)) -- from here on they are sent
    redis.call('HINCRBY', counters, 'sent', #records / 2)
    if values[2] ~= '1' and (delay == 0 or redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] == rows[1]) then
      wake_one()
    end
  end
  return known
end
