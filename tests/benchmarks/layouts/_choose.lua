-- The head of the ready ones: the reply (id, record, state, ...), the ids, the states to write, the members.
local function choose()
  local reply, chosen, leased, mortal, ids = {}, {}, {}, {}, {}
  local members = redis.call('ZRANGE', ready, 0, count - 1)
  if #members == 0 then
    return reply, chosen, leased, members
  end
  for n, member in ipairs(members) do
    ids[n] = id_of(member)
  end
  local records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
  local head = 'live +' .. token .. ' '
  local born = head .. '-' .. FIRST
  for n, id in ipairs(ids) do
    local record, text = records[n], texts[n]
    local expiry = expiry_of(record)
    local due = due_of(members[n])
    if not expiry or expiry > now then -- else the next expire() drops it
      text = text and delivered(text, token) or due == '-' and born or head .. due .. FIRST
      chosen[#chosen + 1] = id
      leased[#leased + 1], leased[#leased + 2] = id, text
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
      mortal[#mortal + 1] = expiry and id
    end
  end
  if #mortal > 0 then
    redis.call('ZREM', expiring, unpack(mortal))
  end
  return reply, chosen, leased, members
end
