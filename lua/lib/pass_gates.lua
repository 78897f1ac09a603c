-- Handles due events of lanes: a probe, a step of a drain, the end of a pause, of a pass, or of the time in which failures do
-- not open a breaker.
-- needs: now, setting, PASS, read_lane, write_lane, reopen, probe, drain, let_probe, end_pass, hung_wait, digits, wake_one
-- needs: keys: gates, seats; args: seed
-- gives: pass_gates
local LANES, GATES = 10, 100 -- lanes, and lanes and passes, per call (I9)
local THREE = 3

-- A drain in which no message is out goes on by probes.
local function go_on(number, lane)
  local name = digits(number)
  if redis.call('ZCOUNT', seats, name, name) == 0 then
    let_probe(number, lane, lane.hung and 1 or THREE, tonumber(seed))
  end
  drain(number, lane, 0)
end

local function pass_lane(number, lane)
  if lane.paused and not (lane.ends and lane.ends <= now) then
    write_lane(number, lane) -- it ends at its own time or when it is resumed, whatever else is due
  elseif lane.open and setting('breaker') then
    lane.paused, lane.ends, lane.by = nil, nil, nil
    if (lane.probe or now) > now and lane.probe <= now + hung_wait(digits(number)) then
      write_lane(number, lane)
    else
      probe(number, lane)
    end
  elseif lane.open or lane.paused then
    reopen(number, lane)
  elseif lane.drains then
    go_on(number, lane)
  else
    lane.trusts = lane.trusts and lane.trusts > now and lane.trusts or nil
    write_lane(number, lane)
  end
end

local function pass_gates()
  local due = redis.call('ZRANGEBYSCORE', gates, '-inf', now, 'WITHSCORES', 'LIMIT', 0, GATES)
  local passed = 0
  for n = 1, #due, 2 do
    local number = tonumber(due[n])
    if due[n]:sub(1, 1) == PASS then
      end_pass(due[n], tonumber(due[n + 1]))
    elseif passed < LANES then
      passed = passed + 1
      local lane = read_lane(number)
      if lane then
        pass_lane(number, lane)
      else
        write_lane(number, nil)
      end
    end
  end
  if #due == 2 * GATES or passed == LANES then
    wake_one() -- more may be due
  end
end
