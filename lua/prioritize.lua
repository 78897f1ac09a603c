-- Changes the priority of waiting messages. Returns the reply of lib/changed.
local number, place, priority, act = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
-- place: ready or scheduled; act: as in lib/note_act
-- items from ARGV[5]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, put, leave, with_priority, with_head, BLOCKED; keys: messages, ready, scheduled
local index = place == 'ready' and ready or scheduled
return changed(each_chosen(index, 5, function(id, state, head, member, score, at)
  local record = redis.call('HGET', messages, id)
  if #record < 8 then -- it is damaged
    return false
  end
  record = with_priority(record, priority)
  head.priority, state.more = priority, with_head(state.more, record)
  leave(id, at, member, put(id, state, head, at == scheduled and (score < BLOCKED or score), nil, function()
    redis.call('HSET', messages, id, record)
  end))
end, nil, place == 'scheduled' and ready or nil))
