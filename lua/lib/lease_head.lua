-- Leases to the token the first `most` messages of `source`, and adds them to the reply. A worker's claim takes a
-- suspect alone, where it stands first, or looks past suspects; a claim of dead letters looks past those that rest.
-- Returns whether only suspects are there; whether to look again, since it met only later forms; whether it leased none.
-- What is rarely needed is defined when it is needed.
-- needs: lapsed_before, read_records; keys: states, history; args: token, part, answer, suspects
-- gives: lease_head
local MOST = 524288 -- bytes that it leases, or one message (I9)

local function lease_head(source, most, reply)
  local rows, ids, met = redis.call('ZRANGE', source, 0, most - 1), {}, false
  for n, row in ipairs(rows) do
    ids[n] = row:sub(row:byte(1) < 16 and 9 or 3) -- as lib/id_of
  end
  local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
  for _, text in ipairs(part == 'live' and suspects == 'all' and {} or texts) do
    met = met or text and text:find(part == 'live' and lapsed_before or ' rest=')
  end
  if met then
    -- needs: past_others
    rows, ids, texts = past_others(source, most, reply)
  end
  if #rows == 0 then
    return met, false, false
  end
  local records, read, spent = {}, 0, 0
  local chosen, seen, leased, taken, mortal, not_fresh = {}, {}, {}, {}, {}, nil
  -- Of a first delivery. Over 64 bytes: Redis would keep a few shorter states in a list, which it searches.
  local fresh = 'live +' .. token .. ' 0000000000000 1 0 0 0 0 0 0000000000000'
  for n = 1, #ids do
    if spent > MOST then -- the rest stays
      break
    elseif n > read then
      records, read = read_records(records, ids, texts, n, MOST - spent)
    end
    local id, text = ids[n], texts[n]
    local record = not seen[id] and records[n] -- a send that was cut off and repeated has two rows
    local line = record and fresh
    local touched = record and (text or (record:byte(8) or 0) % 32 > 9) -- or more in its flags than a priority
    if touched then
      not_fresh = not_fresh or (function()
        -- needs: not_fresh_line
        return not_fresh_line
      end)()
      line = not_fresh(source, rows[n], id, record, text)
    end
    if line ~= 'later' then -- else it stays
      taken[#taken + 1] = rows[n]
      mortal[#mortal + 1] = touched and id or nil
      if not records[n] then -- left behind by a send or a purge that was cut off
        redis.call('HDEL', states, id)
        redis.call('HDEL', history, id)
      elseif line then
        local size = #reply
        chosen[#chosen + 1], seen[id] = id, true
        leased[2 * #chosen - 1], leased[2 * #chosen] = id, line
        local story = text and redis.call('HGET', history, id) or ''
        spent = spent + #record + #story
        if answer == 'rows' then
          reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = id, record, line, story
        end
      end
    end
  end
  if answer == 'count' and #chosen > 0 then
    reply[3], reply[4] = #chosen, spent
  end
  if #taken > 0 then
    -- needs: lease_chosen
    lease_chosen(source, taken, chosen, leased, mortal)
  end
  return false, #taken == 0, #chosen == 0
end
