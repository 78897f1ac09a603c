-- Packs the new items of items[first] to items[last] (id, payload, …), and gives them births. `packed` is how many are new.
-- An id that the queue knows, in any state or of an earlier message (lib/asked), is left as it is (I12): `known`, 1 is the
-- first. `birth` is the next one. If a key gets no seat, the row is in `blocked`. Statements, as in lib/chosen.
-- needs: now, EXPIRES, LONG, pack_number, score_of, order_of, asked, existing, ended, opened, keys_count, all_asked; keys: counters
-- needs: locals: items, first, delay, ttl
-- gives: packed, birth, known, records, places, blocked, new_seats, stated, deadlines
local PACKED, ABOVE, LAST = 0x20, 0x40, 2 -- the flag of fields and headers, and the next; the last field of lib/lanes_in
local records, places, known, head, packed = {}, {}, {}, {}, 0 -- a table costs a part of a command's time
local deadlines, seen = ttl > 0 and {}, asked > 1 and {}
local ends, expiry = deadlines and string.format('%.0f', now + ttl), deadlines and pack_number(now + ttl, 6)
local birth, stated, blocked, score_if_blocked, new_seats
local due, score, lead, order -- of all messages whose births differ in the last byte alone
if delay == 0 and keys_count then
  -- needs: score_in_lane, taken_seats
  score_if_blocked, new_seats = score_in_lane, taken_seats
end
for n = 1, opened and asked or 0 do
  local id = items[first + 2 * n - 2]
  if existing[n] or seen and seen[id] then
    known[#known + 1] = n
  else
    if not birth then -- the first new item: takes as many births as may be needed
      local drawn = redis.pcall('HINCRBY', counters, 'birth', asked)
      birth = type(drawn) == 'number' and drawn - asked + 1 or 0 -- otherwise it is damaged
      if birth < now * 4096 then
        birth = now * 4096
        redis.call('HSET', counters, 'birth', string.format('%.0f', birth + asked - 1))
      end
    end
    local payload, low = items[first + 2 * n - 1], birth % 256
    local flags = payload:byte(1)
    local priority, in_lane = flags % EXPIRES, flags % ABOVE >= PACKED and (payload:byte(4) or ABOVE) <= LAST
    if low == 0 or priority ~= head.priority then
      head.birth, head.priority = birth, priority
      local born = (birth - birth % 4096) / 4096 -- a delayed message is never due then, see lib/order
      due = delay == 0 and born or now + delay ~= born and now + delay or born + 1
      score = string.format('%.0f', delay > 0 and due or score_of(priority, due)) -- Redis would print it each time
      lead, order = pack_number((birth - low) / 256, 6), order_of(head, due)
    end
    low = string.char(low)
    local row, blocked_at = order .. low .. id, nil
    if in_lane then
      row = string.char(9 - priority) .. lead .. low .. id -- as in lib/order
      blocked_at = score_if_blocked and score_if_blocked(id, payload)
    end
    -- needs: asks_result
    if deadlines then
      payload = string.char(payload:byte(1) + EXPIRES) .. expiry .. payload:sub(2)
      deadlines[2 * packed + 1], deadlines[2 * packed + 2] = ends, id
    end
    local record, word = lead .. low .. payload, asks_result and ' result=' .. string.format('%.0f', birth) or ''
    if #record > LONG then
      -- needs: head_word
      word = head_word(record) .. word
    end
    if delay > 0 or word ~= '' then
      stated = stated or {}
      stated[#stated + 1], stated[#stated + 2] = id, 'live - ' .. (delay > 0 and due or 0) .. ' 0 0 0 0 0 0 0' .. word
    end
    records[2 * packed + 1], records[2 * packed + 2] = id, record
    if blocked_at then
      blocked = blocked or {}
      blocked[#blocked + 1], blocked[#blocked + 2] = blocked_at, row
    else
      places[#places + 1], places[#places + 2] = score, row
    end
    packed, birth = packed + 1, birth + 1
    if seen then seen[id] = true end
  end
end
