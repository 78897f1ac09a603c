-- Sweeps a message of a lapsed claim: if the claim still held it, it is redelivered by the policy, charged (I15). In a
-- worker's claim a message's first lapse is not charged, since another message may have killed the worker, and in a batch
-- none is, since its driver was down: it is ready immediately, at its old position. A batch's lapse does not make it a
-- suspect, either (lib/past_suspects). Returns how many messages the claim no longer holds (1 or 0); nil if the message is
-- left alone, since only a later version can judge it.
-- needs: can_judge, holds, held_head, head_of, parse_state, orphaned, judge, setting; keys: states; args: lapse_error
-- gives: sweep_message
local function sweep_message(id, token, consumer, kind)
  local text = redis.call('HGET', states, id)
  local held = holds(token, text)
  local fewer = held and 1 or 0
  if not held then
    -- needs: end_cancelled
    if end_cancelled(id, token) then
      return 1
    end
  end
  local head, later = (held and held_head or head_of)(id, text)
  if later then
    return not held and 0 or nil
  elseif not head then
    return fewer
  end
  local state = parse_state(text, head.birth)
  if not held and not orphaned(id, state, head) then
    return 0
  elseif not can_judge() then
    return nil
  end
  state.token = '' -- its holder did not settle it, so a repeated call must not be told that it did
  local failure = { charge = true, consumer = consumer, error = lapse_error, of_batch = kind == 'batch' }
  if failure.of_batch or kind == 'worker' and state.lapsed == 0 then
    failure.charge, failure.delay, failure.forgiven = false, 0, true
  end
  if head.needs and setting('gated') then
    -- needs: is_closed, spare
    if is_closed(head.needs) then
      spare(id, head.needs, failure)
    end
  end
  if failure.forgiven and state.part == 'live' and head.lane and setting('per_key') then
    -- needs: token_back
    token_back(head.lane, function()
      judge(id, state, head, 'lapsed', failure)
    end)
  else
    judge(id, state, head, 'lapsed', failure)
  end
  return fewer
end
