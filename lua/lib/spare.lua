-- A failure, or a lapse, of a message that needs a closed dependency is neither charged nor delayed. If the message was let
-- through, it goes behind the others of its lane, so that neither bad heads nor bad newcomers fail every probe.
--   failure: from lib/judge
-- needs: BLOCKED, PASS; keys: seats
-- gives: spare
local function spare(id, number, failure)
  failure.charge, failure.delay, failure.excused = false, 0, true
  if redis.call('ZSCORE', seats, PASS .. id) then
    failure.place = BLOCKED + number + 0.5 -- lib/TRIED
  end
end
