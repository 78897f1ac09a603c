-- Reads messages by their ids, if they are in the place, and changes nothing. Returns lists of the ids, the records, the
-- states, the histories and the deadlines of the leases (empty: not leased); a part that is not requested is an empty list.
-- Then the number of ids that it read: it stops after about half a megabyte.
local place = ARGV[1] -- ready, scheduled, leased, dead, expired; empty: any
local record, state, story = ARGV[2], ARGV[3], ARGV[4] -- parts to return: whole, head or no; yes or no; yes or no
-- items from ARGV[5]: id
local MOST = 524288 -- bytes, or one message (I9)
-- needs: head_of, parse_state, member_of, head_bytes
-- needs: keys: messages, states, history, ready, scheduled, dead, expired, leases
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]

local function is_there(id, text)
  local head, later = head_of(id, text)
  if later then
    return place == '' or place == 'leased' and text:find(' %+%S+ ') ~= nil
  elseif not head or place == '' then
    return head
  end
  local known = parse_state(text, head.birth)
  if place == 'leased' then
    return known.mark == '+'
  end
  return known.mark == '-' and redis.call('ZSCORE', index, member_of(id, head, known.due))
end

local ids, records, texts, stories, deadlines, looked, spent = {}, {}, {}, {}, {}, 0, 0
for i = 5, #ARGV do
  if spent > MOST then
    break
  end
  local id = ARGV[i]
  local text = redis.call('HGET', states, id) or ''
  looked = looked + 1
  if is_there(id, text) then
    local n, token = #ids + 1, text:match(' %+(%S+) ')
    ids[n], deadlines[n] = id, token and redis.call('ZSCORE', leases, token) or ''
    if record ~= 'no' then
      records[n] = record == 'head' and head_bytes(text) or redis.call('HGET', messages, id)
      spent = spent + #records[n]
      records[n] = record == 'whole' and records[n] or records[n]:sub(1, 14)
    end
    texts[n] = state == 'yes' and text or nil
    if story == 'yes' then
      stories[n] = redis.call('HGET', history, id) or ''
      spent = spent + #stories[n]
    end
  end
end
return { ids, records, texts, stories, deadlines, looked }
