-- Adds the items (id, payload, …) from items[first] to items[last]. An id that the queue knows, in whatever state, or was
-- acked within the dedup_window, is left as it is (I12). Returns which items it knew: 1 is the first; nil where `opening`
-- is not that of the queue: then nothing was added.
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
  local known, records, rows, head, stated, deadlines, scored, text = {}, {}, {}, {}, {}, {}, nil, nil
  for n, id in ipairs(ids) do
    if existing[n] or seen[id] then
      known[#known + 1] = n
    else
      local payload = items[first + 2 * n - 1]
      head.birth, head.priority = birth, payload:byte(1) % EXPIRES
      local born = (birth - birth % 4096) / 4096 -- what is delayed is never due then, see lib/order
      local due = delay == 0 and born or now + delay ~= born and now + delay or born + 1
      if ttl > 0 then
        payload = string.char(payload:byte(1) + EXPIRES) .. pack_number(now + ttl, 6) .. payload:sub(2)
        deadlines[#deadlines + 1], deadlines[#deadlines + 2] = now + ttl, id
      end
      local record, word = pack_birth(birth) .. payload, ''
      if #record > LONG then
        -- needs: head_word
        word = head_word(record)
      end
      if delay > 0 or word ~= '' then
        stated[#stated + 1], stated[#stated + 2] = id, 'live - ' .. (delay > 0 and due or 0) .. ' 0 0 0 0 0 0 0' .. word
      end
      records[#records + 1], records[#records + 2] = id, record
      local score = delay > 0 and due or score_of(head.priority, due)
      if score ~= scored then -- Redis would print each number anew, which costs more than the rest
        scored, text = score, string.format('%.0f', score)
      end
      rows[#rows + 1], rows[#rows + 2] = text, member_of(id, head, due)
      seen[id], birth = true, birth + 1
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
