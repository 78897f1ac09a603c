-- Changes the priority of waiting messages. Returns the reply of lib/changed.
local number, place, priority, act, plan = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
-- place: ready or scheduled; act, plan: as in lib/note_act and lib/planned
-- items from ARGV[6]: id
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, put, leave, with_priority, with_head, BLOCKED; keys: messages, ready, scheduled
local index = place == 'ready' and ready or scheduled
return changed(each_chosen(index, 6, planned(function(id, state, head, member, score, at)
  local record = redis.call('HGET', messages, id)
  if #record < 8 or plan ~= '' and head.priority == priority then -- it is damaged, or counted in its plan already
    return false
  end
  record = with_priority(record, priority)
  head.priority, state.more = priority, with_head(state.more, record)
  leave(id, at, member, put(id, state, head, at == scheduled and (score < BLOCKED or score), nil, function()
    redis.call('HSET', messages, id, record)
  end))
end), nil, place == 'scheduled' and ready or nil))
