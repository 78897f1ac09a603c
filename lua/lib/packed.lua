-- Packs what is new of the items from items[first] to items[last] (id, payload, …), and gives it births. `packed` is how
-- many that are. An id that the queue knows, in whatever state, or was acked within the dedup_window, is left as it is
-- (I12): `known`, 1 is the first. `opened`: `opening` is that of the queue, or empty; else nothing is packed. Statements, as
-- in lib/chosen, since every send runs them.
-- needs: now, EXPIRES, LONG, pack_number, score_of, order_of; keys: messages, counters, settings
-- needs: locals: items, first, last, delay, ttl, opening
-- gives: packed, known, existing, opened, paused, records, places, stated, deadlines
local count, ids = (last - first + 1) / 2, {}
for n = 1, count do
  ids[n] = items[first + 2 * n - 2]
end
local values = redis.call('HMGET', settings, 'expiry', 'paused', 'dedup_window', 'opening')
local opened, paused = opening == '' or opening == values[4], values[2] == '1'
if values[1] then
  -- needs: allowed_ttl
  ttl = allowed_ttl(ttl, values[1])
end
local existing = opened and redis.call('HMGET', messages, unpack(ids)) or {}
if values[3] then
  -- needs: recall_acked
  recall_acked(ids, existing, values[3])
end
-- Tables cost Redis as much as a part of a command, so there is none that only some need.
local records, places, known, head, packed = {}, {}, {}, {}, 0
local deadlines, seen = ttl > 0 and {}, count > 1 and {}
local ends, expiry = deadlines and string.format('%.0f', now + ttl), deadlines and pack_number(now + ttl, 6)
local birth, stated
local due, score, lead, order -- of all messages whose births differ in the last byte alone
for n = 1, opened and count or 0 do
  local id = ids[n]
  if existing[n] or seen and seen[id] then
    known[#known + 1] = n
  else
    if not birth then -- the first that is new: takes as many births as may be needed
      local drawn = redis.pcall('HINCRBY', counters, 'birth', count)
      birth = type(drawn) == 'number' and drawn - count + 1 or 0 -- else it is damaged
      if birth < now * 4096 then
        birth = now * 4096
        redis.call('HSET', counters, 'birth', string.format('%.0f', birth + count - 1))
      end
    end
    local payload, low = items[first + 2 * n - 1], birth % 256
    local priority = payload:byte(1) % EXPIRES
    if low == 0 or priority ~= head.priority then
      head.birth, head.priority = birth, priority
      local born = (birth - birth % 4096) / 4096 -- what is delayed is never due then, see lib/order
      due = delay == 0 and born or now + delay ~= born and now + delay or born + 1
      score = string.format('%.0f', delay > 0 and due or score_of(priority, due)) -- Redis would print it each time
      lead, order = pack_number((birth - low) / 256, 6), order_of(head, due)
    end
    low = string.char(low)
    if deadlines then
      payload = string.char(payload:byte(1) + EXPIRES) .. expiry .. payload:sub(2)
      deadlines[2 * packed + 1], deadlines[2 * packed + 2] = ends, id
    end
    local record, word = lead .. low .. payload, ''
    if #record > LONG then
      -- needs: head_word
      word = head_word(record)
    end
    if delay > 0 or word ~= '' then
      stated = stated or {}
      stated[#stated + 1], stated[#stated + 2] = id, 'live - ' .. (delay > 0 and due or 0) .. ' 0 0 0 0 0 0 0' .. word
    end
    records[2 * packed + 1], records[2 * packed + 2] = id, record
    places[2 * packed + 1], places[2 * packed + 2] = score, order .. low .. id
    packed, birth = packed + 1, birth + 1
    if seen then seen[id] = true end
  end
end
