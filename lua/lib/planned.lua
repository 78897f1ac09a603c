-- Restricts a verb on chosen messages to those of a plan: `planned(visit)` returns false for the others, and for those that
-- would be more than the plan said. Those of a plan were there when it was made, and have stayed: a message that was
-- redriven or moved since, or died since, is another one for the operator, even if it has the same id.
--   plan: AT BIRTH RETURNED MOST; of its last call also LATER LEASED (lib/note_plan). Empty: no plan, `visit` as it is
--   AT: when it was made, milliseconds; BIRTH: the last that the queue had given then; RETURNED: as in lib/returned_since
--   MOST: how many messages it may change; the register has how many it has changed
-- needs: register, returned_since; keys: history; args: plan
-- gives: planned
local ARRIVES = { redriven = true, moved = true, copied = true } -- by such an event a message with an old birth comes

local function is_planned(made, id, state, head)
  if state.part ~= 'live' then
    return state.due <= made.at and not returned_since(made, state)
  end
  local came
  for event, at in ('\n' .. (redis.call('HGET', history, id) or '')):gmatch('\n(%a+)\t(%d+)') do
    came = ARRIVES[event] and tonumber(at) or came
  end
  if came then
    return came <= made.at
  end
  return head.birth <= made.birth
end

local function planned(visit)
  local at, birth, returned, most = plan:match('^(%d+) (%d+) (%d+) (%d+)')
  if not at then
    return visit
  end
  local made = { at = tonumber(at), birth = tonumber(birth), returned = tonumber(returned) }
  local left = tonumber(most) - (tonumber(register and register:match('%d*$')) or 0)
  return function(id, state, head, ...)
    if left <= 0 or not is_planned(made, id, state, head) or visit(id, state, head, ...) == false then
      return false
    end
    left = left - 1
  end
end
