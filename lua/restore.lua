-- Exported dead letters and expired messages come back.

-- Restores dead letters and expired messages that were exported, as they were then. An id that the queue already has, in
-- any state, is left as it is. Returns the items that it already had: 1 is the first; or DELETED.
function Verbs.restore(q, ARGV)
  local number, opening, act = ARGV[1], ARGV[2], ARGV[3] -- act: as in Audit.note_act
  -- items from ARGV[4]: id, record, state, history (may be empty)
  local done, noted = Register.done_before(q, number)
  if done then
    return Register.known_before(noted)
  end
  if not Queue.is_open(q, opening) then
    return Reply.DELETED
  end
  local known = {}
  for i = 4, #ARGV, 4 do
    local id, record, story = ARGV[i], ARGV[i + 1], ARGV[i + 3]
    if redis.call('HEXISTS', q.messages, id) == 1 then
      known[#known + 1] = i / 4
    else
      local head = Record.read(record)
      local state = State.parse(ARGV[i + 2], head.birth)
      state.more = Record.with_head(state.more, record)
      Redrive.mark_returned(q, state)
      Places.put(q, id, state, head, nil, nil, function()
        redis.call('HDEL', q.history, id) -- left by a call that was cut off
        if story ~= '' then
          redis.call('HSET', q.history, id, story)
        end
        redis.call('HSET', q.messages, id, record) -- from here on the message is there
      end)
      redis.call('HINCRBY', q.counters, 'sent', 1)
    end
  end
  Audit.note_act(q, act, (#ARGV - 3) / 4 - #known)
  Register.note_done(q, number, #known, #known > 0 and table.concat(known, ' ') .. ' ')
  return known
end
