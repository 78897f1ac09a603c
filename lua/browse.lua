-- Reads messages by their ids, as far as they are in the place, and changes nothing. Returns the ids, the records, the
-- states, the histories and the deadlines of the leases (empty: not leased), each a list; a part that is not asked for
-- is an empty list.
local place = ARGV[1] -- ready, scheduled, leased, dead, expired; empty: any
local record, state, story = ARGV[2], ARGV[3], ARGV[4] -- what to return: whole, head or no; yes or no; yes or no
-- items from ARGV[5]: id
-- needs: is_later, read_record, parse_state, member_of
-- needs: keys: messages, states, history, ready, scheduled, dead, expired, leases
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]

local function is_there(id, whole, text)
  if is_later(whole, text) then
    return place == 'leased' and text:find(' %+%S+ ') ~= nil
  end
  local head = read_record(whole)
  local known = parse_state(text, head.birth)
  if place == 'leased' then
    return known.mark == '+'
  end
  return known.mark == '-' and redis.call('ZSCORE', index, member_of(id, head, known.due))
end

local ids, records, texts, stories, deadlines = {}, {}, {}, {}, {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local whole, text = redis.call('HGET', messages, id), redis.call('HGET', states, id) or ''
  if whole and (place == '' or is_there(id, whole, text)) then
    local n, token = #ids + 1, text:match(' %+(%S+) ')
    ids[n], deadlines[n] = id, token and redis.call('ZSCORE', leases, token) or ''
    records[n] = record == 'whole' and whole or record == 'head' and whole:sub(1, 14) or nil
    texts[n] = state == 'yes' and text or nil
    stories[n] = story == 'yes' and (redis.call('HGET', history, id) or '') or nil
  end
end
return { ids, records, texts, stories, deadlines }
