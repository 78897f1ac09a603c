-- Restores dead letters and expired messages that were exported, as they were then. An id that the queue already has, in
-- any state, is left as it is. Returns the items that it already had: 1 is the first; -1 if the queue was deleted since the
-- client opened it: then nothing was done.
local number, opening, act = ARGV[1], ARGV[2], ARGV[3] -- act: as in lib/note_act
-- items from ARGV[4]: id, record, state, history (may be empty)
-- needs: done
if done then
  -- needs: known_before
  return known_before()
end
-- needs: is_open, note_done, note_act, read_record, parse_state, with_head, put, mark_returned; keys: messages, history, counters
if not is_open then
  return -1
end
local known = {}
for i = 4, #ARGV, 4 do
  local id, record, story = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  if redis.call('HEXISTS', messages, id) == 1 then
    known[#known + 1] = i / 4
  else
    local head = read_record(record)
    local state = parse_state(ARGV[i + 2], head.birth)
    state.more = with_head(state.more, record)
    mark_returned(state)
    put(id, state, head, nil, nil, function()
      redis.call('HDEL', history, id) -- left by a call that was cut off
      if story ~= '' then
        redis.call('HSET', history, id, story)
      end
      redis.call('HSET', messages, id, record) -- from here on the message is there
    end)
    redis.call('HINCRBY', counters, 'sent', 1)
  end
end
note_act(act, (#ARGV - 3) / 4 - #known)
note_done(#known, #known > 0 and table.concat(known, ' ') .. ' ')
return known
