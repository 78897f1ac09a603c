-- Leases the messages at the head of an index to a token, and adds them to the reply of a claim.

-- For messages that were touched before or have a time to live: gives the function that leases one, or nil
-- where the row of the index is stale (a script was cut off) or the message has no time left. A function that
-- defines functions: most claims need none of them, and to define them costs as much as a claim of one.
local function for_touched()
  -- @include lib/record
  -- @include lib/state
  -- @include lib/place
  -- @include lib/stand
  return function(id, record, text, row)
    local head = read_record(record)
    local state = parse_state(text, head.birth)
    local early = state.due > now and state.due ~= math.floor(head.birth / 4096)
    if state.part ~= part or state.mark == '+' or early or member_of(id, head, state.due) ~= row then
      return nil
    end
    local expiry = part == 'live' and expiry_of(head, state)
    if expiry and expiry <= now then
      bury(id, state, head, 'expired', 'expired')
      return nil
    end
    state.deliveries, state.mark, state.token = state.deliveries + 1, '+', token
    return format_state(state)
  end
end

local function choose(rows, reply)
  local ids, chosen, leased, mortal = {}, {}, {}, {}
  for n, row in ipairs(rows) do
    ids[n] = id_of(row)
  end
  local records = redis.call('HMGET', messages, unpack(ids))
  local texts = redis.call('HMGET', states, unpack(ids))
  local fresh, touched = 'live +' .. token .. ' 0 1 0 0 0 0 0 0', nil
  for n, id in ipairs(ids) do
    local record, text = records[n], texts[n]
    local line = record and fresh
    if record and (text or math.floor((record:byte(8) or 0) / 16) % 2 == 1) then
      touched = touched or for_touched()
      line = touched(id, record, text, rows[n])
      mortal[#mortal + 1] = id
    end
    if line then
      chosen[#chosen + 1] = id
      leased[#leased + 1] = id
      leased[#leased + 1] = line
      reply[#reply + 1] = id
      reply[#reply + 1] = record
      reply[#reply + 1] = line
      reply[#reply + 1] = text and redis.call('HGET', history, id) or ''
    end
  end
  return chosen, leased, mortal
end

local function take(source, most, reply)
  local rows = redis.call('ZRANGE', source, 0, most - 1)
  if #rows == 0 then
    return
  end
  local chosen, leased, mortal = choose(rows, reply)
  if #chosen > 0 then
    redis.call('ZADD', leases, now + lease, token)
    redis.call('HSET', claims, token, consumer .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
    redis.call('HSET', states, unpack(leased)) -- from here on they are leased
  end
  redis.call('ZREM', source, unpack(rows))
  if #mortal > 0 then
    redis.call('ZREM', expiring, unpack(mortal))
  end
end
