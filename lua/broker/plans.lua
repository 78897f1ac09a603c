-- An operator's plan says which messages an act changes: those that were there when it was made, and have stayed. A message
-- that was redriven or moved since, or died since, is another one for the operator, even if it has the same id.
--   plan: AT BIRTH RETURNED MOST; of its last call also LATER LEASED (Plans.note). Empty: no plan
--   AT: when it was made, milliseconds; BIRTH: the last that the queue had given then; RETURNED: as in
--   Redrive.returned_since
--   MOST: how many messages it may change; the register has how many it has changed
local ARRIVES = { redriven = true, moved = true, copied = true } -- by such an event a message with an old birth comes

-- How many messages the calls before changed.
local function changed_before(noted)
  return tonumber(noted and noted:match('%d*$')) or 0
end

local function is_planned(q, made, id, state, head)
  if state.part ~= 'live' then
    return state.due <= made.at and not Redrive.returned_since(made, state)
  end
  local came
  for event, at in ('\n' .. (redis.call('HGET', q.history, id) or '')):gmatch('\n(%a+)\t(%d+)') do
    came = ARRIVES[event] and tonumber(at) or came
  end
  if came then
    return came <= made.at
  end
  return head.birth <= made.birth
end

-- Restricts a visit (Choice.each) to the messages of a plan: it returns false for the others, and for those that would be
-- more than the plan said.
function Plans.visit(q, call, visit)
  local at, birth, returned, most = call.plan:match('^(%d+) (%d+) (%d+) (%d+)')
  if not at then
    return visit
  end
  local made = { at = tonumber(at), birth = tonumber(birth), returned = tonumber(returned) }
  local left = tonumber(most) - changed_before(call.noted)
  return function(id, state, head, ...)
    if left <= 0 or not is_planned(q, made, id, state, head) or visit(id, state, head, ...) == false then
      return false
    end
    left = left - 1
  end
end

-- The end of a call of a plan: records the act, and in the register of the plan how many messages it has changed so far.
-- After its last call the plan is done: every further call of any client gets that reply (I12).
--   count: how many messages this call changed. Returns how many all have; LATER and LEASED are the rest of the last reply
function Plans.note(q, call, count)
  local total = count + changed_before(call.noted)
  local later, leased = call.plan:match('^%d+ %d+ %d+ %d+ (%d+) (%d+)$')
  Audit.note_act(q, call.act, count)
  if later then
    Register.note_done(q, call.number, total, table.concat({ later, '', leased, '' }, ' '))
  elseif count > 0 then
    Register.note_done(q, 0, total) -- below the number of its calls: it is not done
  end
  return total, later or '', tonumber(leased) or 0
end
