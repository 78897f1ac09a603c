-- The end of a call of a plan (lib/planned): records the act, and in the register of the plan how many messages it has
-- changed so far. After its last call the plan is done: every further call of any client gets that reply (I12).
--   number: how many messages this call changed. Returns how many all have; LATER and LEASED are the rest of the last reply
-- needs: register, note_act, note_done; keys: sender; args: plan, act
-- gives: note_plan
local function note_plan(number)
  local total = number + (tonumber(register and register:match('%d*$')) or 0)
  local later, leased = plan:match('^%d+ %d+ %d+ %d+ (%d+) (%d+)$')
  note_act(act, number)
  if later then
    note_done(total, table.concat({ later, '', leased, '' }, ' '))
  elseif number > 0 then
    redis.call('PSETEX', sender, '3600000', '0 ' .. total) -- below the number of its calls: it is not done
  end
  return total, later or '', tonumber(leased) or 0
end
