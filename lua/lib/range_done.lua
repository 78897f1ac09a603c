-- What a call on a range that was done before returns again, from its note: how many messages it changed, then the score
-- and the member of the row after which the range goes on (empty: it is over).
-- needs: register, done
-- gives: range_done
local function range_done()
  local score, member = register:match('^%d+ (%S*) (.*) %d*$')
  return { done, score or '', member or '' } -- of a later call, if this one arrives late: nobody reads that
end
